"""Reading a request: who sent it, which model it names, and what it asks for."""
