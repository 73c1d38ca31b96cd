package main

import "slices"

// Lora has the settings of an engine with LoRA adapters. Adapters are numbers in the order of their
// names.
type Lora struct {
	Slots         int       `json:"slots"` // adapters of a step, and of the accelerator's memory
	HostSlots     int       `json:"host_slots"`
	DeviceSeconds float64   `json:"device_seconds"` // from host memory
	HostSeconds   float64   `json:"host_seconds"`   // from the volume
	Factors       []float64 `json:"factors"`        // of a step's products, by the number of adapters
}

// adapterUse is an adapter of running requests.
type adapterUse struct {
	adapter int32
	running int32
}

// adapters has those of an engine's requests, and where they are: simulator.engine.adapters.
type adapters struct {
	set          *Lora
	used         []adapterUse // of running requests, by number
	device, host []int32      // least recently used first
	named        []int32      // of a step
}

func (a *adapters) find(adapter int32) (int, bool) {
	return slices.BinarySearchFunc(a.used, adapter, func(each adapterUse, wanted int32) int {
		return int(each.adapter) - int(wanted)
	})
}

// hasRoom returns whether a request of an adapter can join the running ones.
func (a *adapters) hasRoom(adapter int32) bool {
	if adapter == none || len(a.used) < a.set.Slots {
		return true
	}
	_, found := a.find(adapter)
	return found
}

func (a *adapters) join(adapter int32) {
	at, found := a.find(adapter)
	if !found {
		a.used = slices.Insert(a.used, at, adapterUse{adapter: adapter})
	}
	a.used[at].running++
}

func (a *adapters) leave(adapter int32) {
	at, _ := a.find(adapter)
	if a.used[at].running--; a.used[at].running == 0 {
		a.used = slices.Delete(a.used, at, at+1)
	}
}

// load brings the adapters of a step to the accelerator, and returns how many they are and the time
// that it takes: AdapterSlots.load. Idle is that of a running request that the step leaves out.
func (a *adapters) load(idle int32) (int, float64) {
	a.named = a.named[:0]
	for _, each := range a.used {
		if each.adapter != idle || each.running > 1 {
			a.named = append(a.named, each.adapter)
		}
	}
	seconds := 0.0
	for _, name := range a.named {
		if !slices.Contains(a.device, name) {
			seconds += a.set.DeviceSeconds
			if !slices.Contains(a.host, name) {
				seconds += a.set.HostSeconds
			}
		}
		a.host = a.keep(a.host, name, a.set.HostSlots)
		a.device = a.keep(a.device, name, a.set.Slots)
	}
	return len(a.named), seconds
}

// keep moves an adapter to the end of a list, and removes the first idle ones beyond its length.
func (a *adapters) keep(list []int32, name int32, most int) []int32 {
	if at := slices.Index(list, name); at >= 0 {
		list = slices.Delete(list, at, at+1)
	}
	list = append(list, name)
	for len(list) > most {
		at := slices.IndexFunc(list, func(each int32) bool {
			_, isBusy := a.find(each)
			return each != name && !isBusy
		})
		if at < 0 {
			break
		}
		list = slices.Delete(list, at, at+1)
	}
	return list
}
