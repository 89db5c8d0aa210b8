"""Models on their way into the cache: from which sources, how they are checked, where they lie."""
