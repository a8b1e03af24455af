"""The command line. It parses arguments, calls the engine and prints."""
