//go:build !race

package api

const raceMemoryFactor = 1
