module registers

go 1.19
