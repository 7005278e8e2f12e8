"""Linear assembly as a language of its own: text to `asmir` functions, for the scheduler."""
