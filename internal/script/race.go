//go:build race

package script

// racing is true if the race detector is on. It reserves far more memory than the program uses, so a
// limit of memory cannot be set.
const racing = true

// PoolLimit is the time limit of the gateway's pools. The race detector makes programs up to 20 times
// slower (https://go.dev/doc/articles/race_detector).
const PoolLimit = 10 * TimeLimit
