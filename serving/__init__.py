"""How a program of ours is served: its socket, its side of HTTP, and its way from a signal to a clean end."""
