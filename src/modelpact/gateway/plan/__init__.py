"""Planning: a request, the configuration and the catalog in, a plan out. Pure."""
