//go:build !race

package api

const raceWeight = 1
