module laps

go 1.19
