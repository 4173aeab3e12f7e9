# What a box of vagrant/rehearsal/machine.sh wants of libvirt; Vagrant reads it with the box.
Vagrant.configure("2") do |config|
  config.vm.provider "libvirt" do |v|
    v.driver = "qemu"
    v.cpu_mode = "custom"
    v.cpu_model = "qemu64"
    v.video_type = "none"
    v.kernel = File.join(__dir__, "vmlinuz")
    v.initrd = File.join(__dir__, "initrd")
    # Names of interfaces do not depend on where they are plugged in. An emulated processor cannot
    # be tricked into telling secrets, and what keeps it from it costs half of its time.
    v.cmd_line = "rw quiet console=ttyS0 net.ifnames=0 mitigations=off nokaslr"
  end
end
