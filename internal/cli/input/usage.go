package input

import "fmt"

// usageError is the error of a command that was called in a wrong way.
type usageError struct{ error }

// ExitCode returns the exit code of the command.
func (usageError) ExitCode() int { return 2 }

// wrongUsage marks err as wrong usage of a command: the program exits with 2.
func Usage(err error) error { return usageError{err} }

// usagef formats an error as fmt.Errorf does and marks it as wrong usage.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
