"""pgmjax."""
