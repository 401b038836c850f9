import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.datastream.DataStreamSource;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/** Word count by keyBy and sum, in two subtasks each; the totals go to files: OUTPUT PASSES FILE... */
public class Words {
    private static final AtomicBoolean BEGUN = new AtomicBoolean(true);

    public static void main(String[] words) throws Exception {
        List<String> files = Arrays.asList(words).subList(2, words.length);
        count(files.subList(0, 2), 1, words[0]);
        BEGUN.set(false);
        count(files, Integer.parseInt(words[1]), words[0]);
        System.out.println("end");
    }

    private static void count(List<String> files, int passes, String output) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(2);
        env.getConfig().enableObjectReuse();
        lines(env, files, passes)
                .flatMap(new Split())
                .keyBy(word -> word.f0)
                .sum(1)
                .process(new Totals(output))
                .sinkTo(new DiscardingSink<>());
        env.execute("words");
    }

    /** The lines of all files, as often as that. */
    static DataStreamSource<String> lines(StreamExecutionEnvironment env, List<String> files, int passes) {
        Path[] paths = IntStream.range(0, passes).boxed()
                .flatMap(pass -> files.stream().map(Path::new)).toArray(Path[]::new);
        return env.fromSource(FileSource.forRecordStreamFormat(new TextLineInputFormat(), paths).build(),
                WatermarkStrategy.noWatermarks(), "lines");
    }

    /** The runs of letters, in lower case, each with a one. */
    static class Split implements FlatMapFunction<String, Tuple2<String, Long>> {
        @Override
        public void flatMap(String line, Collector<Tuple2<String, Long>> out) {
            if (BEGUN.compareAndSet(false, true)) {
                System.out.println("begin");
            }
            StringBuilder word = new StringBuilder();
            for (int i = 0; i <= line.length(); i++) {
                int letter = i < line.length() ? line.charAt(i) | 0x20 : 0;
                if (letter >= 'a' && letter <= 'z' && line.charAt(i) < 128) {
                    word.append((char) letter);
                } else if (word.length() > 0) {
                    out.collect(Tuple2.of(word.toString(), 1L));
                    word.setLength(0);
                }
            }
        }
    }

    /** The latest total of each word; written when the task ends. */
    static class Totals extends ProcessFunction<Tuple2<String, Long>, Long> {
        private final String output;
        private final Map<String, Long> totals = new HashMap<>();

        Totals(String output) {
            this.output = output;
        }

        @Override
        public void processElement(Tuple2<String, Long> total, Context context, Collector<Long> out) {
            totals.put(total.f0, total.f1);
        }

        @Override
        public void close() throws IOException {
            String name = "totals-" + getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            Files.writeString(Paths.get(output, name), totals.entrySet().stream()
                    .map(entry -> entry.getKey() + " " + entry.getValue() + "\n").collect(Collectors.joining()));
        }
    }
}
