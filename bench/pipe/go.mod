module cycle

go 1.19

require redlock v0.0.0

replace redlock => ../../contrib/go
