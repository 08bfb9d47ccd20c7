"""AgentWorldBench: its rows, its judge, and its scores; `verifierd.replay.bench.agentworldbench` is the suite."""
