"""Tables: domain and attributes, readers of files, exact counts, the neighbouring relation."""
