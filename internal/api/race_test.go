//go:build race

package api

// raceMemoryFactor is how many times the memory the race detector makes of an
// allocation: it keeps pools from being used again.
const raceMemoryFactor = 2
