package script

import (
	"bufio"
	"io"
	"os"
)

// childVariable makes a start of the program one of a child.
const childVariable = "EVENTHOOK_SCRIPT_CHILD"

// childEnvironment is the whole environment of a child. TZ spares it a look at
// the machine's time zone: local time in scripts is UTC.
var childEnvironment = []string{childVariable + "=1", "GOMAXPROCS=2", "GOMEMLIMIT=96MiB", "GOTRACEBACK=none", "TZ=UTC"}

// init turns the process into a child when it was started as one: whatever
// program imports this package, tests too, is its own child.
func init() {
	if os.Getenv(childVariable) == "" {
		return
	}
	confine()
	serve(os.Stdin, os.Stdout)
	os.Exit(0)
}

// serve does one job after the other until nobody sends any more.
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

// jobs reads ahead, so that the child ends with its parent even while a job
// keeps it busy.
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
