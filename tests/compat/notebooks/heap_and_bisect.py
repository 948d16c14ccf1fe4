# %%
import heapq, bisect
heap = []
for pri, job in [(5, "e"), (1, "a"), (3, "c")]:
    heapq.heappush(heap, (pri, job))
heap[0]
# %%
heapq.heappop(heap), heapq.heappushpop(heap, (4, "d"))
# %%
heap, heapq.nsmallest(1, heap)
# %%
scores = [10, 20, 30]
bisect.insort(scores, 25)
scores, bisect.bisect_left(scores, 25)
# %%
class Job:
    def __init__(self, p): self.p = p
    def __lt__(self, o): return self.p < o.p
    def __repr__(self): return f"J{self.p}"
jobs = [Job(p) for p in (3, 1, 2)]
heapq.heapify(jobs)
jobs[0]
# %%
heapq.heappush(jobs, Job(0))
[heapq.heappop(jobs) for _ in range(2)], jobs
# %%
import array
arr = array.array("d", [1.0, 2.0])
arr.append(3.5)
arr
# %%
arr[1] = 9
arr.tolist(), sum(arr), jobs[0].p
