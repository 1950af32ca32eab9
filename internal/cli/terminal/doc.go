// Package terminal prints the output and the errors of commands. Texts that
// senders chose are printed without characters that control a terminal.
package terminal
