"""What is done to a kernel as it is written, before any form of it is made."""
