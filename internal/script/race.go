//go:build race

package script

// racing programs reserve far more memory than they use: for them a bound of
// the system's is no bound of ours.
const racing = true
