//go:build race

package api

// raceMemoryFactor is the factor by which the race detector increases allocations:
// it prevents the reuse of pooled memory.
const raceMemoryFactor = 2
