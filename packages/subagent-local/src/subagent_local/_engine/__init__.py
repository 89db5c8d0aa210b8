"""The engine of our own: the child from the outside (`child`), and what runs in it (`server`)."""
