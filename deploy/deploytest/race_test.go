//go:build race

package deploytest

// raceFlag builds the gateway as the tests are built, so that its packages are compiled once.
const raceFlag = "-race"
