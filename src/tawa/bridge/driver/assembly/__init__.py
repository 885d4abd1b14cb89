"""What is changed and checked in the code that ptxas reads and writes."""
