//go:build race

package script

// racing is true if the race detector is on. It reserves far more memory than the program uses, so a
// limit of memory cannot be set.
const racing = true

// RouteLimit is the time limit of the pools that run the scripts of routes. The race detector makes programs up to 20 times
// slower (https://go.dev/doc/articles/race_detector).
const RouteLimit = 10 * TimeLimit
