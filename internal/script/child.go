package script

import (
	"bufio"
	"io"
	"os"
	"slices"
)

// childVariable is the environment variable that marks a process as a child.
const childVariable = "EVENTHOOK_SCRIPT_CHILD"

// childEnvironment is the complete environment of a child. TZ avoids reading the machine's time
// zone: local time in scripts is UTC.
var childEnvironment = []string{childVariable + "=1", "GOMAXPROCS=2", "GOMEMLIMIT=96MiB", "GOTRACEBACK=none", "TZ=UTC"}

// priority is the scheduling priority of a child: low, or that of the gateway.
type priority bool

const (
	lowPriority    priority = false
	normalPriority priority = true
)

// priorityVariable is set in the environment of a child with the priority of the gateway.
const priorityVariable = "EVENTHOOK_SCRIPT_PRIORITY"

func (p priority) environment() []string {
	if p == normalPriority {
		return append(slices.Clone(childEnvironment), priorityVariable+"=normal")
	}
	return childEnvironment
}

// init runs the process as a child if childVariable is set. So every program that imports this
// package, including a test, can start itself as a child.
func init() {
	if os.Getenv(childVariable) == "" {
		return
	}
	confine()
	serve(os.Stdin, os.Stdout)
	os.Exit(0)
}

// serve runs jobs, one at a time, until the input ends. The first reply, which is empty, reports that
// the child is ready.
func serve(in io.Reader, out io.Writer) {
	w := bufio.NewWriter(out)
	if writeReply(w, nil, nil) != nil {
		return
	}
	engine := newEngine()
	for j := range jobs(in) {
		output, fault := engine.do(j)
		if len(output) > OutputLimit {
			output, fault = nil, &Error{Reason: TooMuch, Message: "its result is larger than 1 MiB"}
		}
		if writeReply(w, output, fault) != nil {
			return
		}
		engine.prepare()
	}
}

// jobs reads jobs in a goroutine, so that the child exits with its parent even while a job runs.
func jobs(in io.Reader) <-chan job {
	list := make(chan job)
	go func() {
		r := bufio.NewReader(in)
		for {
			j, err := readJob(r)
			if err != nil {
				os.Exit(0)
			}
			list <- j
		}
	}()
	return list
}
