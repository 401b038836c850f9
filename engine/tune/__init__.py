"""What `riprap tune` does: pilots, what they lost, what to propose."""
