//go:build race

package api

// raceWeight is how many times the memory the race detector makes of an
// allocation: it keeps pools from being used again.
const raceWeight = 2
