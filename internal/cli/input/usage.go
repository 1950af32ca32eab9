package input

import "fmt"

// usageError is an error in the flags or arguments of a command.
type usageError struct{ error }

// ExitCode implements the interface that cli.Run looks for.
func (usageError) ExitCode() int { return 2 }

// Usage marks err as wrong usage of a command. The program then exits with code 2.
func Usage(err error) error { return usageError{err} }

// Usagef formats an error as fmt.Errorf does and marks it as wrong usage.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
