// Package input reads the values of flags: from the flag itself, from a file,
// from standard input or from an environment variable. Its errors never contain
// a secret.
package input
