"""Reading: the caller of a request, the model that it names, and what it asks for."""
