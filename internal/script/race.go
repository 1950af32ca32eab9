//go:build race

package script

// racing reports the race detector, which reserves far more memory than the program uses, so that a
// memory limit cannot apply.
const racing = true
