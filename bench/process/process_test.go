package process

import "testing"

func TestResidentBytes(t *testing.T) {
	t.Parallel()
	const status = "Name:\teventhook\nVmPeak:\t 2000000 kB\nVmHWM:\t   90000 kB\nVmRSS:\t   80000 kB\nRssAnon:\t   60000 kB\n"
	if got, err := residentBytes(status); err != nil || got != 80000<<10 {
		t.Errorf("got %f, %v, want 80000 kB", got, err)
	}
	for _, wrong := range []string{"", "Name:\tx\n", "Name:\tx\nVmRSS:\t   many kB\n"} {
		if _, err := residentBytes(wrong); err == nil {
			t.Errorf("%q: got no error, want one", wrong)
		}
	}
}
