"""What reaches hosts over SSH: sessions, nodes and their files, faults, what is seen of them."""
