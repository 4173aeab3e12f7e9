"""Where hosts come from: namespaces on this machine, Vagrant machines, any SSH hosts."""
