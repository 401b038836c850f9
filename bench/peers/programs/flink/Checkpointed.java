import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * Counts by key, in state that checkpoints hold; each counter appends "NUMBER MILLISECONDS" to OUTPUT-SUBTASK whenever
 * it has counted EVERY more: keys KEYS RATE EVERY OUTPUT, or words PASSES RATE EVERY OUTPUT FILE...; a RATE of 0 is none.
 */
public class Checkpointed {
    private static final long MIX = 0x9E3779B97F4A7C15L;

    public static void main(String[] words) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.getConfig().enableObjectReuse();
        long number = Long.parseLong(words[1]);
        long rate = Long.parseLong(words[2]);
        long every = Long.parseLong(words[3]);
        if (words[0].equals("keys")) {
            keys(env, number, rate, every, words[4]);
        } else {
            words(env, (int) number, rate, every, words[4], Arrays.asList(words).subList(5, words.length));
        }
        env.execute("checkpointed");
    }

    /** All keys once, as fast as may be; then at the rate an update of a key that follows from the item's number. */
    private static void keys(StreamExecutionEnvironment env, long keys, long rate, long every, String output) {
        env.setParallelism(1);
        env.fromSequence(0, Long.MAX_VALUE - 1)
                .map(new Paced<Long>(rate, keys))
                .returns(Long.class)
                .keyBy(number -> number < keys ? number : ((number * MIX) >>> 11) % keys)
                .process(new Count<Long, Long>(every, keys, output))
                .sinkTo(new DiscardingSink<>());
    }

    /** In two subtasks each; the rate is that of lines. */
    private static void words(
            StreamExecutionEnvironment env, int passes, long rate, long every, String output, List<String> files) {
        env.setParallelism(2);
        Words.lines(env, files, passes)
                .map(new Paced<String>(rate / 2, 0))
                .returns(String.class)
                .flatMap(new Words.Split())
                .keyBy(word -> word.f0)
                .process(new Count<String, Tuple2<String, Long>>(every, 0, output))
                .sinkTo(new DiscardingSink<>());
    }

    /** A few numbers of an operator, in checkpoints. */
    private static class Numbers {
        final long[] values;
        private final ListState<long[]> kept;

        /** As the checkpoint has them, or as many zeros. */
        Numbers(FunctionInitializationContext context, int count) throws Exception {
            kept = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("numbers", long[].class));
            Iterator<long[]> restored = kept.get().iterator();
            values = restored.hasNext() ? restored.next() : new long[count];
        }

        void save() throws Exception {
            kept.update(List.of(values));
        }
    }

    /** Holds items up that are ahead of the rate since the first one behind FREE; what is late goes at full speed. */
    static class Paced<T> extends RichMapFunction<T, T> implements CheckpointedFunction {
        private final long rate;
        private final long free;
        private transient Numbers beganAndCount;

        Paced(long rate, long free) {
            this.rate = rate;
            this.free = free;
        }

        @Override
        public T map(T item) throws InterruptedException {
            long[] values = beganAndCount.values;
            long due = values[1]++ - free;
            if (rate > 0 && due >= 0) {
                if (due == 0) {
                    values[0] = System.currentTimeMillis();
                }
                long ahead = values[0] + due * 1000 / rate - System.currentTimeMillis();
                if (ahead > 0) {
                    Thread.sleep(ahead);
                }
            }
            return item;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            beganAndCount.save();
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            beganAndCount = new Numbers(context, 2);
        }
    }

    /** The count of each key, and of all. */
    static class Count<K, T> extends KeyedProcessFunction<K, T, Long> implements CheckpointedFunction {
        private final long every;
        private final long before;
        private final String output;
        private transient String file;
        private transient ValueState<Long> counts;
        private transient Numbers all;

        Count(long every, long before, String output) {
            this.every = every;
            this.before = before;
            this.output = output;
        }

        @Override
        public void open(OpenContext context) {
            counts = getRuntimeContext().getState(new ValueStateDescriptor<>("counts", Long.class));
            file = output + "-" + getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        }

        @Override
        public void processElement(T item, Context context, Collector<Long> out) throws Exception {
            Long count = counts.value();
            counts.update(count == null ? 1L : count + 1);
            long behind = ++all.values[0] - before;
            if (behind > 0 && behind % every == 0) {
                Disturbed.written(behind / every, file);
            }
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            all.save();
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            all = new Numbers(context, 1);
        }
    }
}
