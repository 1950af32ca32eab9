package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook/internal/telemetry"
)

func TestATestAlertEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.NewMetrics()
		listener := telemetry.NewManagement(m, alive, nil).Handler()
		act := func(method string) {
			w := httptest.NewRecorder()
			if listener.ServeHTTP(w, httptest.NewRequest(method, "/test-alert", http.NoBody)); w.Code != http.StatusOK {
				t.Fatalf("%s answered %d %s, want 200", method, w.Code, w.Body)
			}
		}
		want := func(claim string, value float64) {
			t.Helper()
			synctest.Wait()
			if got := series(t, m)["test_alert"]; got != value {
				t.Errorf("%s: got %v, want %v", claim, got, value)
			}
		}
		want("at the start", 0)
		act(http.MethodPost)
		want("after a request", 1)
		time.Sleep(9 * time.Minute) // in the bubble
		act(http.MethodPost)
		time.Sleep(9 * time.Minute)
		want("less than ten minutes after the second request", 1)
		time.Sleep(2 * time.Minute)
		want("after ten minutes", 0)
		act(http.MethodPost)
		act(http.MethodDelete)
		want("after its end", 0)
		time.Sleep(time.Hour)
		want("an hour later", 0)
	})
}
