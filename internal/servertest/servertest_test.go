package servertest_test

import (
	"os/exec"
	"testing"

	"github.com/eventhook/eventhook/internal/servertest"
)

func TestAProcessEnds(t *testing.T) {
	for name, end := range map[string]func(*servertest.Process){
		"terminate": (*servertest.Process).Terminate, "kill": (*servertest.Process).Kill} {
		p, err := servertest.Start(exec.Command("sleep", "1000"))
		if err != nil {
			t.Fatal(err)
		}
		end(p)
		select {
		case <-p.Ended():
		default:
			t.Errorf("%s returned before the process had ended", name)
		}
		end(p) // of a process that has ended
	}
}

func TestAProgramThatDoesNotExistDoesNotStart(t *testing.T) {
	if _, err := servertest.Start(exec.Command("/nonexistent")); err == nil {
		t.Error("got no error")
	}
}

func TestFreePortsDiffer(t *testing.T) {
	ports, err := servertest.FreePorts(3)
	if err != nil || ports[0] == ports[1] || ports[1] == ports[2] || ports[0] == ports[2] {
		t.Errorf("got %v, %v; want three ports", ports, err)
	}
}
