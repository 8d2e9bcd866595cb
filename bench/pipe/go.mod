module cycle

go 1.19

require (
	laps v0.0.0
	redlock v0.0.0
)

replace (
	laps => ../laps
	redlock => ../../contrib/go
)
