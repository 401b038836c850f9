import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.core.fs.Path;
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
        Path[] paths = IntStream.range(0, passes).boxed()
                .flatMap(pass -> files.stream().map(Path::new)).toArray(Path[]::new);
        env.setParallelism(2);
        env.fromSource(FileSource.forRecordStreamFormat(new TextLineInputFormat(), paths).build(),
                        WatermarkStrategy.noWatermarks(), "lines")
                .map(new Paced<String>(rate / 2, 0))
                .returns(String.class)
                .flatMap(new Words.Split())
                .keyBy(word -> word.f0)
                .process(new Count<String, Tuple2<String, Long>>(every, 0, output))
                .sinkTo(new DiscardingSink<>());
    }

    /** A few numbers of an operator, in checkpoints. */
    private abstract static class Numbers {
        static ListState<long[]> of(FunctionInitializationContext context) throws Exception {
            return context.getOperatorStateStore().getListState(new ListStateDescriptor<>("numbers", long[].class));
        }

        static long[] read(ListState<long[]> kept, long[] otherwise) throws Exception {
            for (long[] found : kept.get()) {
                return found;
            }
            return otherwise;
        }
    }

    /** Holds items up that are ahead of the rate since the first one behind FREE; what is late goes at full speed. */
    static class Paced<T> extends RichMapFunction<T, T> implements CheckpointedFunction {
        private final long rate;
        private final long free;
        private transient ListState<long[]> kept;
        private transient long[] beganAndCount;

        Paced(long rate, long free) {
            this.rate = rate;
            this.free = free;
        }

        @Override
        public T map(T item) throws InterruptedException {
            long due = beganAndCount[1]++ - free;
            if (rate > 0 && due >= 0) {
                if (due == 0) {
                    beganAndCount[0] = System.currentTimeMillis();
                }
                long ahead = beganAndCount[0] + due * 1000 / rate - System.currentTimeMillis();
                if (ahead > 0) {
                    Thread.sleep(ahead);
                }
            }
            return item;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            kept.update(List.of(beganAndCount));
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            kept = Numbers.of(context);
            beganAndCount = Numbers.read(kept, new long[] {0, 0});
        }
    }

    /** The count of each key, and of all. */
    static class Count<K, T> extends KeyedProcessFunction<K, T, Long> implements CheckpointedFunction {
        private final long every;
        private final long before;
        private final String output;
        private transient ValueState<Long> counts;
        private transient ListState<long[]> kept;
        private transient long[] all;

        Count(long every, long before, String output) {
            this.every = every;
            this.before = before;
            this.output = output;
        }

        @Override
        public void open(OpenContext context) {
            counts = getRuntimeContext().getState(new ValueStateDescriptor<>("counts", Long.class));
        }

        @Override
        public void processElement(T item, Context context, Collector<Long> out) throws Exception {
            Long count = counts.value();
            counts.update(count == null ? 1L : count + 1);
            long behind = ++all[0] - before;
            if (behind > 0 && behind % every == 0) {
                written(behind / every);
            }
        }

        private void written(long number) throws IOException {
            String name = output + "-" + getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            String line = number + " " + System.currentTimeMillis() + "\n";
            Files.writeString(Paths.get(name), line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            kept.update(List.of(all));
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            kept = Numbers.of(context);
            all = Numbers.read(kept, new long[] {0});
        }
    }
}
