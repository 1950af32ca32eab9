package turns_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/eventhook/eventhook/internal/turns"
)

func TestTurnsComeInTheOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := turns.New[string, []int](1)
		first := all.Join("k")
		<-first.Turn()
		var members sync.WaitGroup
		for i := range 50 {
			members.Go(func() {
				line := all.Join("k")
				defer all.Leave("k")
				<-line.Turn()
				defer line.Pass()
				line.Notes = append(line.Notes, i)
			})
			synctest.Wait()
		}
		if n := all.Members("k"); n != 51 {
			t.Errorf("%d stand in the line, want 51", n)
		}
		first.Pass()
		members.Wait()
		<-first.Turn()
		if !slices.IsSorted(first.Notes) || len(first.Notes) != 50 {
			t.Errorf("turns came as %v, want the 50 in order", first.Notes)
		}
	})
}

func TestAsManyHaveATurnAsTheLineIsWide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const width = 3
		all := turns.New[string, struct{}](width)
		var mu sync.Mutex
		having, most := 0, 0
		next := make(chan struct{})
		var members sync.WaitGroup
		for range 10 {
			members.Go(func() {
				line := all.Join("k")
				defer all.Leave("k")
				<-line.Turn()
				mu.Lock()
				having++
				most = max(most, having)
				mu.Unlock()
				<-next
				mu.Lock()
				having--
				mu.Unlock()
				line.Pass()
			})
		}
		for range 10 {
			synctest.Wait()
			next <- struct{}{}
		}
		members.Wait()
		if most != width {
			t.Errorf("%d had a turn at once, want %d", most, width)
		}
	})
}

func TestLinesAreApartAndForgotten(t *testing.T) {
	all := turns.New[string, int](1)
	for i := range 3 {
		line := all.Join(fmt.Sprint(i))
		<-line.Turn() // nobody else's turn
		if line.Notes != 0 {
			t.Errorf("the notes are %d, want those of a new line", line.Notes)
		}
		line.Notes = 7
		line.Pass()
		all.Leave(fmt.Sprint(i))
	}
	line := all.Join("0")
	if line.Notes != 0 || all.Members("0") != 1 || all.Members("1") != 0 {
		t.Errorf("got the notes %d and %d and %d members, want a new line", line.Notes, all.Members("0"), all.Members("1"))
	}
}
