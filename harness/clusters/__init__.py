"""Sources of hosts: namespaces on this machine, Vagrant machines, any SSH hosts."""
