"""One conversation with a model server: how it is asked, what it answers, what fits, what can go wrong."""
