package console

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/eventhook/eventhook/client"
)

// matchesOf returns the number of matches with which the API refuses an act because
// expected_count is another number. ok is false for other errors.
func matchesOf(err error) (n int64, ok bool) {
	p, isProblem := errors.AsType[*client.Problem](err)
	if !isProblem || p.Status != http.StatusConflict {
		return 0, false
	}
	for _, fault := range p.Errors {
		var sent int64
		if _, err := fmt.Sscanf(fault.Message, "is %d, but %d match", &sent, &n); err == nil && fault.Location == "body.expected_count" {
			return n, true
		}
	}
	return 0, false
}

// expected returns the count that the person confirmed. Without one it is 0 and isConfirmed is
// false: the API then refuses the act with the number of matches, and does nothing if none match.
func (r *request) expected() (n int64, isConfirmed bool) {
	n, err := strconv.ParseInt(r.PostForm.Get("expected_count"), 10, 64)
	return n, err == nil
}

// posted returns a member of the form; nil if it is absent or empty.
func (r *request) posted(name string) *string {
	if v := r.PostForm.Get(name); v != "" {
		return &v
	}
	return nil
}
