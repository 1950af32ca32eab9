// Package clitest helps tests to run commands.
package clitest
