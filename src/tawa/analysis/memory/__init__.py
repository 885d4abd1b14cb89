"""Memory: the origin of pointers, aliasing between accesses, and stores that another tile follows."""
