// Package plan prints the changes of an apply like a diff and counts them.
package plan
