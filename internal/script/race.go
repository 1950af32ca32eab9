//go:build race

package script

// racing is true if the race detector is on. It reserves far more memory than the program uses, so a
// limit of memory cannot be set.
const racing = true
