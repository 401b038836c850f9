"""Parts that schemes share."""
