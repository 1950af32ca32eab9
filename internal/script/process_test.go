package script

import (
	"testing"
)

// What hangs must not go on behind our back.
func TestAProcessThatHangsIsEnded(t *testing.T) {
	pool := NewPool(1)
	t.Cleanup(pool.Close)
	worker := func() *process {
		w := <-pool.slots
		pool.slots <- w
		return w
	}
	if err := pool.Check(Program{Kind: JMESPath, Source: "@"}); err != nil {
		t.Fatal(err)
	}
	first := worker()
	if first == nil || first.cmd.ProcessState != nil {
		t.Fatalf("got %+v, want a process that is kept", first)
	}
	hang := Program{Kind: Filter, Source: "const filter = () => [].indexOf.call({length: 2 ** 53 - 1}, 1)"}
	if _, err := pool.Run(hang, []byte("{}")); err == nil {
		t.Fatal("got an answer, want it stopped")
	}
	if first.cmd.ProcessState == nil {
		t.Error("got a process that hangs on, want it ended")
	}
	if second := worker(); second == nil || second == first || second.cmd.ProcessState != nil {
		t.Errorf("got %+v, want a new process", second)
	}
	pool.Close()
	if worker() != nil {
		t.Error("got a process after Close, want none")
	}
}
